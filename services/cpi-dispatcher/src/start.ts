import type { Logger } from "@diskmesh/domain";
import { AbruptEnds, createRpcServer, type Lifecycle, Readiness, systemClock } from "@diskmesh/service";
import { type DispatcherConfig, RPC_LIMITS, runFolderOf } from "./config/config.js";
import type { DispatcherContext } from "./cpis/context.js";
import { CpiConfigs } from "./cpis/cpi-configs.js";
import { CpiLog } from "./cpis/cpi-log.js";
import { CpiSet, type OfferedCpi } from "./cpis/cpi-set.js";
import { Fence } from "./cpis/fence.js";
import { CpiMaker } from "./cpis/make-cpis.js";
import { RunFolder } from "./executables/run-folder.js";
import { RegistryClients } from "./fleet/registry-client.js";
import { addServices } from "./services.js";

/** Starts the dispatcher: kills processes left by its predecessor, creates the CPIs, then starts the server. */
export async function startDispatcher(lifecycle: Lifecycle, config: DispatcherConfig, log: Logger): Promise<void> {
  const runFolder = lifecycle.use("run folder", await RunFolder.open(runFolderOf(config)));
  const mark = await AbruptEnds.open({ file: runFolder.runMark, clock: systemClock, log });
  lifecycle.use("mark of a running process", mark);
  const registries = new RegistryClients(config.tls);
  lifecycle.use("clients of registries", registries);
  const maker = new CpiMaker(config, registries, runFolder);
  const own = config.cpis.map((cpi) =>
    maker.make({ ...describe(cpi), name: cpi.name, type: cpi.type, migratedFrom: [] }),
  );
  const context: DispatcherContext = {
    configs: new CpiConfigs(new CpiSet(own, own[0] as OfferedCpi, false)),
    maker,
    fence: new Fence(),
    log: new CpiLog(),
  };
  lifecycle.use("CPI calls", () => context.fence.end());
  const readiness = new Readiness({ needs: ["certificate"], log });
  const server = await createRpcServer(lifecycle, config, log, readiness, { limits: RPC_LIMITS });
  addServices(server, () => context);
  lifecycle.use("gRPC server", () => server.drain());
  const port = await server.listen(config.listen);
  readiness.setServing(true);
  log.info({ port, cpis: own.map(({ name }) => name) }, "CPI service started");
}

type OwnCpi = DispatcherConfig["cpis"][number];

function describe(cpi: OwnCpi): { execPath: string; properties: Readonly<Record<string, unknown>> } {
  if ("properties" in cpi) return { execPath: cpi.execPath ?? "", properties: cpi.properties };
  const registry = "registry" in cpi ? cpi.registry : undefined;
  return { execPath: "", properties: registry ? { registry_address: registry.address } : {} };
}
