import type { Logger } from "@diskmesh/domain";
import { RpcServer, type RpcServerLimits, type TlsFiles } from "@diskmesh/rpc";
import { Descriptors } from "./descriptors.js";
import type { Lifecycle } from "./lifecycle.js";
import { rpcLogging } from "./rpc-logging.js";

export interface RpcServerConfig {
  readonly tls: TlsFiles;
  readonly rpc: RpcServerLimits & { readonly reservedDescriptors: number };
}

/** What a health check asks for to hear whether a process has descriptors left. */
const DESCRIPTORS_HEALTH = "descriptors";

/** Makes a service's gRPC server: it tells the log of what fails, and refuses connections while descriptors run out. */
export function createRpcServer(lifecycle: Lifecycle, config: RpcServerConfig, log: Logger): RpcServer {
  let descriptors: Descriptors | undefined;
  const shortage = () => descriptors?.shortage();
  const server = new RpcServer({ tls: config.tls, limits: config.rpc, shortage, ...rpcLogging(log) });
  server.setHealth(DESCRIPTORS_HEALTH, true);
  descriptors = lifecycle.use(
    "descriptors",
    new Descriptors({
      reserved: config.rpc.reservedDescriptors,
      log,
      onChange: (short) => server.setHealth(DESCRIPTORS_HEALTH, !short),
    }),
  );
  return server;
}
