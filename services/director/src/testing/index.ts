export { TestDirector } from "./test-director.js";
