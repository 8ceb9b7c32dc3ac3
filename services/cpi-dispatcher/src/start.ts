import { RpcServer } from "@diskmesh/rpc";
import { type Lifecycle, type Logger, rpcFailureLogger } from "@diskmesh/service";
import type { DispatcherConfig } from "./config.js";
import type { DispatcherContext, OfferedCpi } from "./context.js";
import { Fence } from "./fence.js";
import { FleetCpi } from "./fleet/fleet-cpi.js";
import { connectRegistry } from "./fleet/registry-client.js";
import { addCpiService } from "./handlers/cpi-service.js";

/** Starts the dispatcher: its CPIs, then the server that offers them. */
export async function startDispatcher(lifecycle: Lifecycle, config: DispatcherConfig, log: Logger): Promise<void> {
  const cpis = config.cpis.map(({ name, type, registry = config.registry }): OfferedCpi => {
    const client = lifecycle.use(`registry of CPI ${name}`, connectRegistry(registry.address, config.tls));
    return { name, type, cpi: new FleetCpi(client) };
  });
  const context: DispatcherContext = { cpis, fence: new Fence({ maxDirectors: config.maxDirectors }) };
  const server = new RpcServer({ tls: config.tls, limits: config.rpc, onError: rpcFailureLogger(log) });
  addCpiService(server, context);
  lifecycle.use("gRPC server", () => server.drain());
  const port = await server.listen(config.listen);
  server.setServing(true);
  log.info({ port, cpis: cpis.map(({ name }) => name) }, "the dispatcher serves");
}
