export { installCpi, powerOffAll, powerOnAll } from "./install.js";
export { methods } from "./methods.js";
export { programOnPath } from "./program-on-path.js";
export { answerTo, CpiError, type Request } from "./protocol.js";
export { writeWhole } from "./state.js";
export { pidOf } from "./vm-process.js";
