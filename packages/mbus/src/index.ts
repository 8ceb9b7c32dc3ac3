export { AgentClient } from "./agent-client.js";
export { AgentError } from "./agent-error.js";
export {
  type AgentMethod,
  AgentServer,
  DEFAULT_AGENT_SERVER_LIMITS,
} from "./agent-server.js";
export {
  connectNats,
  NatsConnection,
} from "./connection.js";
export { type Notice, watchHeartbeats } from "./heartbeats.js";
export { mbusMetrics } from "./metrics.js";
export { mbusPermissions } from "./permissions.js";
export { reloadServer } from "./reload-server.js";
export { whyOutdated, whyRefused } from "./server-advisories.js";
export {
  isToldOnceMore,
  type ServerUser,
  serverClusterFile,
  serverTlsFile,
  serverUsersFiles,
} from "./server-users.js";
