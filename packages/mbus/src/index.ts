export { AgentClient, type AgentClientOptions, type CallOptions } from "./agent-client.js";
export { AgentError } from "./agent-error.js";
export {
  type AgentMethod,
  AgentServer,
  type AgentServerLimits,
  type AgentServerOptions,
  DEFAULT_AGENT_SERVER_LIMITS,
} from "./agent-server.js";
export {
  connectNats,
  type Message,
  type MessageHandler,
  NatsConnection,
  type NatsOptions,
  type ReconnectLimits,
  type Subscription,
} from "./connection.js";
export { watchHeartbeats } from "./heartbeats.js";
export { type MbusPermissions, mbusPermissions } from "./permissions.js";
export { whyOutdated, whyRefused } from "./server-advisories.js";
