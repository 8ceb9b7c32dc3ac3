import { chmod, mkdir, realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ControllerDefinition, IdentityDefinition, NodeDefinition } from "@diskmesh/api/csi";
import { DynamicDiskServiceDefinition } from "@diskmesh/api/director";
import type { Logger } from "@diskmesh/domain";
import { type Client, createClient, SocketServer } from "@diskmesh/rpc";
import { ConfigError, type Lifecycle, LineLimit, Readiness, reportReadiness, systemClock } from "@diskmesh/service";
import { codeOf } from "./calls/errors.js";
import { SelfReport, type SendReport, toAgent } from "./calls/self-report.js";
import { SharedWork } from "./calls/shared-work.js";
import type { ControllerConfig, CsiConfig } from "./config.js";
import type { ControllerContext } from "./controller/context.js";
import { DirectorDisks } from "./controller/director-disks.js";
import { controllerHandlers } from "./controller/handlers.js";
import { kindParameterOf } from "./controller/kind-parameter.js";
import { servePlugin } from "./docker/plugin-server.js";
import { DockerVolumes } from "./docker/volumes.js";
import { identityHandlers } from "./identity.js";
import { nodeIdOf } from "./model/node-id.js";
import { slowWarnings } from "./model/slow-work.js";
import { anywhereIn, type Place } from "./model/topology.js";
import type { NodeContext } from "./node/context.js";
import { DeviceUses } from "./node/device-uses.js";
import { nodeHandlers } from "./node/handlers.js";
import { runningPrograms } from "./node/run-program.js";

const MODES = ["controller", "node", "docker"] as const;
export type Mode = (typeof MODES)[number];

/** Splits the modes `--controller`, `--node` and `--docker` from the other arguments of a command line. */
export function modesIn(args: readonly string[]): { readonly modes: readonly Mode[]; readonly others: string[] } {
  const modeOf = (arg: string): Mode | undefined => MODES.find((mode) => arg === `--${mode}`);
  return {
    modes: args.map(modeOf).filter((mode) => mode !== undefined),
    others: args.filter((arg) => modeOf(arg) === undefined),
  };
}

/** Serves CSI on the socket that CSI_ENDPOINT names, and Docker's protocol on the socket of the config. */
export async function startDriver(
  lifecycle: Lifecycle,
  config: CsiConfig,
  log: Logger,
  modes: readonly Mode[],
): Promise<void> {
  if (modes.length === 0) throw new ConfigError("no mode is given: add --controller, --node, --docker, or several");
  const needs = (...of: readonly Mode[]): boolean => of.some((mode) => modes.includes(mode));
  const socketPath = needs("controller", "node") ? socketOf(process.env.CSI_ENDPOINT) : undefined;
  const docker = needs("docker") ? sectionOf(config, "docker", "docker") : undefined;
  const controller = needs("controller", "docker") ? sectionOf(config, "controller", ...modes) : undefined;
  const node = needs("node", "docker") ? sectionOf(config, "node", ...modes) : undefined;
  const readiness = new Readiness({ needs: controller ? ["certificate"] : [], log });
  await reportReadiness(lifecycle, { tls: controller?.tls, health: config.health }, log, readiness);
  const client = controller && directorClient(lifecycle, controller);
  const disks = client && controllerContext(client, controller, config);
  const own = node && (await nodeContext(node, config));
  if (socketPath !== undefined) {
    const server = new SocketServer({ codeOf, onError: failureLogger(log) });
    server.addService(IdentityDefinition, identityHandlers(readiness));
    if (disks && needs("controller")) server.addService(ControllerDefinition, controllerHandlers(disks));
    if (own && needs("node")) server.addService(NodeDefinition, nodeHandlers(own));
    lifecycle.use("CSI socket", () => server.drain());
    await server.listen(socketPath);
  }
  if (docker && disks && own) {
    // Volumes of all containers are mounted below.
    await mkdir(docker.folder, { recursive: true, mode: 0o700 });
    await chmod(docker.folder, 0o700);
    const folder = await realpath(docker.folder);
    const mounts = { ...own, mountFolders: [folder] };
    const near = { ...disks, places: placesNear(own.place, disks.places) };
    const { key } = kindParameterOf(disks.disks.owner);
    const parameters = { [key]: key === "pool" ? docker.pool : docker.diskType };
    const volumes = new DockerVolumes({ controller: near, node: mounts, folder, parameters });
    lifecycle.use("Docker socket", await servePlugin(docker.socket, volumes, log));
  }
  readiness.setServing(true);
  const sends: SendReport[] = [];
  if (client)
    sends.push((report, deadlineMs) =>
      client.reportCsiDriver({ ...report, warnings: [...report.warnings] }, { deadlineMs }),
    );
  if (config.node?.hostId !== undefined && own) sends.push(toAgent(agentSocketOf(config.node)));
  const slow = () => slowWarnings(systemClock.nowMs(), own?.work.running ?? [], runningPrograms);
  const served = socketPath ?? docker?.socket ?? "";
  lifecycle.use("report", new SelfReport({ socketPath: served, sends, readiness, slow, clock: systemClock, log }));
  log.info({ socketPath, dockerSocketPath: docker?.socket, modes }, "CSI services started");
}

/** Timeout of one director call. A task that takes longer continues; the repeated CSI call waits for it again. */
const DIRECTOR_DEADLINE_MS = 9 * 60_000;

/** Returns the socket of the agent whose exports the node uses, which lies beside their folder. */
const agentSocketOf = ({ exportsFolder }: NonNullable<CsiConfig["node"]>): string =>
  join(dirname(exportsFolder), "csi.sock");

type DirectorClient = Client<typeof DynamicDiskServiceDefinition>;

function directorClient(lifecycle: Lifecycle, { director, tls }: ControllerConfig): DirectorClient {
  const client = createClient(DynamicDiskServiceDefinition, {
    address: director.address,
    tls,
    serverRole: "director",
    defaultDeadlineMs: DIRECTOR_DEADLINE_MS,
  });
  return lifecycle.use("client of the director", client);
}

function controllerContext(
  client: DirectorClient,
  { azs, deployment, cluster = "" }: ControllerConfig,
  { maxVolumesPerNode }: CsiConfig,
): ControllerContext {
  const disks = new DirectorDisks(client, deployment === undefined ? { cluster } : { deployment });
  const work = new SharedWork(async (volumeId) => (await disks.trouble(volumeId))?.sentence);
  return { disks, work, places: azs.map(anywhereIn), maxVolumesPerNode };
}

/** Returns the places with the AZ of this node first, whose bytes lie near the node. */
function placesNear(own: Place, places: readonly Place[]): readonly Place[] {
  return [own, ...places.filter(({ az }) => az !== own.az)];
}

async function nodeContext(
  node: NonNullable<CsiConfig["node"]>,
  { maxVolumesPerNode }: CsiConfig,
): Promise<NodeContext> {
  const { instanceId = "", hostId = "", az, exportsFolder, dynamicDisksFolder, mountFolders, stateFolder } = node;
  return {
    nodeId: nodeIdOf({ instanceId, hostId }),
    place: { az, instanceId, hostId },
    linkTo: (diskCid) => (hostId === "" ? join(dynamicDisksFolder, diskCid) : join(exportsFolder, `${diskCid}.device`)),
    mountFolders,
    maxVolumesPerNode,
    uses: await DeviceUses.open(stateFolder),
    work: new SharedWork(),
  };
}

function sectionOf<Name extends Mode>(
  config: CsiConfig,
  name: Name,
  ...modes: readonly Mode[]
): NonNullable<CsiConfig[Name]> {
  const section = config[name];
  if (section !== undefined) return section;
  const needing = modes.includes(name) ? name : "docker";
  throw new ConfigError(`the config has no \`${name}\`, which --${needing} needs`);
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
