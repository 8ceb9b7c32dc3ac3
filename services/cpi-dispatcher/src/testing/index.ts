export { OfferedCpi } from "../cpis/cpi-set.js";
export { addServices } from "../services.js";
export { TestDispatcher } from "./test-dispatcher.js";
