export { rejection } from "./rejection.js";
export { isQuickRun, leaveToVerify, skipBecause, skipWithout } from "./skip.js";
