export { cpiContract, newCall, reasonOfFailed } from "./cpi-contract.js";
export { MemoryCloud } from "./memory-cloud.js";
export { MemoryCpi, OPTIONAL_IN_MEMORY } from "./memory-cpi.js";
export { RemoteCpi } from "./remote-cpi.js";
export { VERSION_TABLE } from "./version-table.js";
