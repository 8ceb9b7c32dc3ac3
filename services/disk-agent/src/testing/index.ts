export { VendorCalls } from "../drivers/vendor-calls.js";
