export type { TlsFiles } from "@diskmesh/tls";
export { allPages } from "./all-pages.js";
export type { CallContext } from "./call-context.js";
export type { RpcChange, RpcFailure } from "./call-gate.js";
export {
  type CallOptions,
  type Client,
  type Handlers,
  type MethodDefinition,
  methodsOf,
  type PartialHandlers,
  type PartialOf,
  type ServiceDefinition,
} from "./definition.js";
export { errorOfStatus } from "./error-of-status.js";
export { createClient } from "./following.js";
export { waitForHealth } from "./health-client.js";
export { DEFAULT_RPC_SERVER_LIMITS, type RpcServerLimits } from "./limits.js";
export { allow, allowChange, offer, type Serve } from "./methods.js";
export { rpcMetrics } from "./metrics.js";
export { KeptLists, LIST_LIMITS, type ListLimits, parsePageSize, parsePlace, placeToken } from "./paging.js";
export { REQUEST_ID_HEADER, RequestIds } from "./request-id.js";
export type { RefusedConnection } from "./secure-listener.js";
export { RpcServer, type RpcServerOptions } from "./server.js";
export { statusOfError } from "./status-of-error.js";
