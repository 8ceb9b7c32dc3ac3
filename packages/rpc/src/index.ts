export type { CallContext } from "./call-context.js";
export type { RpcFailure } from "./call-gate.js";
export { type ClientOptions, createClient } from "./client.js";
export type { CallOptions, Client, Handler, Handlers, MethodDefinition, ServiceDefinition } from "./definition.js";
export { type WaitForHealthOptions, waitForHealth } from "./health-client.js";
export { DEFAULT_RPC_SERVER_LIMITS, type RpcServerLimits } from "./limits.js";
export { type AllowedRoles, type ListenAddress, RpcServer, type RpcServerOptions } from "./server.js";
export { reasonOf } from "./status-of-error.js";
export type { TlsFiles } from "./tls.js";
