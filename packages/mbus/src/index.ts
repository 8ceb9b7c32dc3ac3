export { AgentClient } from "./agent-client.js";
export { AgentError } from "./agent-error.js";
export {
  type AgentMethod,
  AgentServer,
} from "./agent-server.js";
export { openCalloutIssuer } from "./callout-issuer.js";
export {
  connectNats,
  NatsConnection,
} from "./connection.js";
export { type Notice, watchHeartbeats } from "./heartbeats.js";
export { mbusMetrics } from "./metrics.js";
export { mbusPermissions } from "./permissions.js";
export { authCalloutConfig, clusterTlsConfig, NATS_ACCOUNT, natsServerConfig } from "./server-config.js";
export { whyRefused } from "./server-version.js";
