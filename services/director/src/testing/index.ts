export { HttpClient } from "./http-client.js";
export { startHttpDirector } from "./http-director.js";
export { startHttpNoop } from "./http-noop.js";
export { TestDirector } from "./test-director.js";
