export { OfferedCpi } from "../cpi-set.js";
export { addServices } from "../services.js";
export { TestDispatcher } from "./test-dispatcher.js";
