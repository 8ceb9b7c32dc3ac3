import { databaseAway, natsAway } from "./away.js";
import { clock } from "./clock.js";
import { deviceErrors } from "./device-errors.js";
import { deviceHangs } from "./device-hangs.js";
import { drops } from "./drops.js";
import type { Fault } from "./fault.js";
import { fullDisk } from "./full-disk.js";
import { kill } from "./kill.js";
import { otherVersion } from "./other-version.js";
import { stop } from "./stop.js";

/** All that is done to a mesh. */
export const FAULTS: readonly Fault[] = [
  kill,
  stop,
  natsAway,
  databaseAway,
  fullDisk,
  deviceErrors,
  deviceHangs,
  drops,
  clock,
  otherVersion,
];
