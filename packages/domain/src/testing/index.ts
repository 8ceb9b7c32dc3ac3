export { ManualClock } from "./manual-clock.js";
export { rejection } from "./rejection.js";
export { isQuickRun, leaveToVerify, skipBecause, skipWithout } from "./skip.js";
