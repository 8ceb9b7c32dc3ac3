export { type CpiUnderTest, cpiContract, newCall, reasonOfFailed } from "./cpi-contract.js";
export { RemoteCpi } from "./remote-cpi.js";
