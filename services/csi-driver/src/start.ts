import { ControllerDefinition, IdentityDefinition, NodeDefinition } from "@diskmesh/api/csi";
import { DynamicDiskServiceDefinition } from "@diskmesh/api/director";
import type { Logger } from "@diskmesh/domain";
import { createClient, SocketServer } from "@diskmesh/rpc";
import { ConfigError, type Lifecycle, LineLimit, Readiness, reportReadiness } from "@diskmesh/service";
import type { ControllerConfig, CsiConfig, NodeConfig } from "./config.js";
import { DirectorDisks } from "./controller/director-disks.js";
import { controllerHandlers } from "./controller/handlers.js";
import { codeOf } from "./errors.js";
import { identityHandlers } from "./identity.js";
import { nodeHandlers } from "./node/handlers.js";
import { SharedWork } from "./shared-work.js";

const MODES = ["controller", "node"] as const;
export type Mode = (typeof MODES)[number];

/** Splits the modes `--controller` and `--node` from the other arguments of a command line. */
export function modesIn(args: readonly string[]): { readonly modes: readonly Mode[]; readonly others: string[] } {
  const modeOf = (arg: string): Mode | undefined => MODES.find((mode) => arg === `--${mode}`);
  return {
    modes: args.map(modeOf).filter((mode) => mode !== undefined),
    others: args.filter((arg) => modeOf(arg) === undefined),
  };
}

/** Serves CSI on the socket that CSI_ENDPOINT names. */
export async function startDriver(
  lifecycle: Lifecycle,
  config: CsiConfig,
  log: Logger,
  modes: readonly Mode[],
): Promise<void> {
  if (modes.length === 0) throw new ConfigError("no mode is given: add --controller, --node, or both");
  const socketPath = socketOf(process.env.CSI_ENDPOINT);
  const controller = modes.includes("controller") ? sectionOf(config, "controller") : undefined;
  const node = modes.includes("node") ? sectionOf(config, "node") : undefined;
  const readiness = new Readiness({ needs: controller ? ["certificate"] : [], log });
  await reportReadiness(lifecycle, { tls: controller?.tls, health: config.health }, log, readiness);
  const server = new SocketServer({ codeOf, onError: failureLogger(log) });
  server.addService(IdentityDefinition, identityHandlers(readiness));
  if (controller) addController(lifecycle, server, controller, config);
  if (node) addNode(server, node, config);
  lifecycle.use("CSI socket", () => server.drain());
  await server.listen(socketPath);
  readiness.setServing(true);
  log.info({ socketPath, modes }, "CSI services started");
}

/** Timeout of one director call. A task that takes longer continues; the repeated CSI call waits for it again. */
const DIRECTOR_DEADLINE_MS = 9 * 60_000;

function addController(
  lifecycle: Lifecycle,
  server: SocketServer,
  controller: ControllerConfig,
  { maxVolumesPerNode }: CsiConfig,
): void {
  const client = createClient(DynamicDiskServiceDefinition, {
    address: controller.director.address,
    tls: controller.tls,
    serverRole: "director",
    defaultDeadlineMs: DIRECTOR_DEADLINE_MS,
  });
  lifecycle.use("client of the director", client);
  const disks = new DirectorDisks(client, controller.deployment);
  const work = new SharedWork();
  server.addService(ControllerDefinition, controllerHandlers({ disks, work, azs: controller.azs, maxVolumesPerNode }));
}

function addNode(server: SocketServer, node: NodeConfig, { maxVolumesPerNode }: CsiConfig): void {
  server.addService(NodeDefinition, nodeHandlers({ ...node, maxVolumesPerNode, work: new SharedWork() }));
}

function sectionOf<Name extends Mode>(config: CsiConfig, name: Name): NonNullable<CsiConfig[Name]> {
  const section = config[name];
  if (section === undefined) throw new ConfigError(`the config has no \`${name}\`, which --${name} needs`);
  return section;
}

function socketOf(endpoint: string | undefined): string {
  const path = /^unix:(?:\/\/)?(\/.+)$/.exec(endpoint ?? "")?.[1];
  if (path !== undefined) return path;
  const given = endpoint === undefined ? "is not set" : `is ${JSON.stringify(endpoint)}`;
  throw new ConfigError(`CSI_ENDPOINT ${given}: give the socket to serve on, e.g. unix:///csi/csi.sock`);
}

function failureLogger(log: Logger): ConstructorParameters<typeof SocketServer>[0]["onError"] {
  const limit = new LineLimit(log);
  return ({ error, unexpected, ...call }) => {
    if (unexpected) log.error({ ...call, error }, "CSI call failed");
    else if (limit.admits(call.method)) log.info({ ...call, error: (error as Error).message }, "CSI call failed");
  };
}
