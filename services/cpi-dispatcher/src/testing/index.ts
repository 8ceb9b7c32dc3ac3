export { OfferedCpi } from "../cpi-set.js";
export { TestDispatcher } from "./test-dispatcher.js";
