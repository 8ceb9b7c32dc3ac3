export type { TlsFiles } from "@diskmesh/tls";
export type { CallContext } from "./call/call-context.js";
export {
  type CallOptions,
  type Client,
  type Handlers,
  type MethodDefinition,
  methodsOf,
  type PartialHandlers,
  type PartialOf,
  type ServiceDefinition,
} from "./call/definition.js";
export { DEFAULT_RPC_SERVER_LIMITS, type RpcServerLimits } from "./call/limits.js";
export { rpcMetrics } from "./call/metrics.js";
export { LIST_LIMITS, pageOf, pageOfItems, parsePageSize, parsePlace, placeToken } from "./call/paging.js";
export { REQUEST_ID_HEADER, RequestIds } from "./call/request-id.js";
export { allPages } from "./client/all-pages.js";
export { createClient } from "./client/following.js";
export { waitForHealth } from "./client/health-client.js";
export { durationOf, msOfDuration } from "./errors/duration.js";
export { errorOfMessage, errorOfStatus } from "./errors/error-of-status.js";
export { ERROR_DOMAIN, statusOfError } from "./errors/status-of-error.js";
export type { RpcChange, RpcFailure } from "./server/call-gate.js";
export { ALERT_ENTRY, alertsIn } from "./server/health.js";
export { allow, allowChange, type OfferedMethod, offer, type Serve, scoped } from "./server/methods.js";
export type { RefusedConnection } from "./server/secure-listener.js";
export { RpcServer, type RpcServerOptions } from "./server/server.js";
export { type SocketCall, type SocketHandlers, SocketServer } from "./server/socket-server.js";
