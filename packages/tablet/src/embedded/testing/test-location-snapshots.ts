export { openWithSnapshots as openLocation } from "./test-location.js";
