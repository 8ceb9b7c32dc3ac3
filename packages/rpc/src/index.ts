export type { CallContext } from "./call-context.js";
export type { RpcFailure } from "./call-gate.js";
export type { ClientOptions } from "./client.js";
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
export { errorOfStatus, type FailedCall } from "./error-of-status.js";
export { createClient } from "./following.js";
export { type WaitForHealthOptions, waitForHealth } from "./health-client.js";
export { DEFAULT_RPC_SERVER_LIMITS, type RpcServerLimits } from "./limits.js";
export { allow, type OfferedMethod, offer, type Serve } from "./methods.js";
export { type Page, type PageLimits, type PageRequest, parsePage, parsePageSize, takePage } from "./paging.js";
export type { ListenAddress, RefusedConnection } from "./secure-listener.js";
export { type AllowedRoles, RpcServer, type RpcServerOptions } from "./server.js";
export { type GrpcStatus, statusOfError } from "./status-of-error.js";
export type { TlsFiles } from "./tls.js";
