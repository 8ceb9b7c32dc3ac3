import { troubleIn } from "@diskmesh/domain";
import type { RegistryTables } from "../store/schema.js";
import type { Cause, Known, Subject } from "./cause.js";
import { deviceCauses } from "./explain-device.js";
import { diskCauses } from "./explain-disk.js";
import { hostCauses } from "./explain-host.js";
import { poolCauses } from "./explain-pool.js";

/** Returns the first cause that needs somebody's action; undefined when nothing is wrong. */
export function troubleOf(tables: RegistryTables, subject: Subject, known: Known): Cause | undefined {
  return troubleIn(causesOf(tables, subject, known));
}

/** Returns why a thing is not, or not yet, in its wanted state. */
export function causesOf(tables: RegistryTables, subject: Subject, known: Known): Cause[] {
  switch (subject.kind) {
    case "HOST":
      return hostCauses(tables, subject.name, known);
    case "DEVICE":
      return deviceCauses(tables, subject.name, known);
    case "DISK":
      return diskCauses(tables, subject.name, known);
    case "POOL":
      return poolCauses(tables, subject.name, known);
    case "VM":
      return [];
  }
}
