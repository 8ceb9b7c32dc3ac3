export { VendorCalls } from "../drivers/vendor-calls.js";
export { endDaemons } from "../end-sessions.js";
