export { allRoutes } from "../http/routes.js";
export type { NatsUsers } from "./agent-access.js";
export { agentAccess } from "./agent-access.js";
export { type HttpAnswer, HttpClient } from "./http-client.js";
export { httpUsers, startHttpDirector } from "./http-director.js";
export { startHttpNoop } from "./http-noop.js";
export { openPageFeed, type PageFeed } from "./page-feed.js";
export { TestAgent } from "./test-agent.js";
export { manifest, TestDirector } from "./test-director.js";
