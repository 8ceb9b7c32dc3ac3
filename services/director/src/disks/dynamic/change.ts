import { bytesText, ioLimitsText, MIB_BYTES } from "@diskmesh/domain";
import { cpisOfStep, recorded } from "../../cpi/cpi-target.js";
import { diskIn, isNameTaken } from "../../instances/scope.js";
import { realSize } from "../../store/disk.js";
import type { DirectorTables } from "../../store/schema.js";
import type { Scope } from "../../store/scope.js";
import type { Planner, Step } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { decideResize, diskNotFound, requireMade } from "./decisions.js";
import { dynamicDisk, failingStep } from "./dynamic-disk.js";

/** Changes of a dynamic disk that may be attached. The CPI decides whether it changes attached disks. */

/** Enlarges the disk. A repeated call at the CPI finds the size reached. */
export const resizeDynamicDisk: Planner<"resize_dynamic_disk", DiskJobContext> = (
  context,
  { diskName, sizeMib, scope },
  tables,
) =>
  stepOn(context, tables, { diskName, scope }, async (run) => {
    const disk = await context.tablet.read((now) => diskIn(scope, now, diskName));
    const made = requireMade(disk, diskName);
    if (!decideResize(disk, diskName, sizeMib))
      return `disk \`${diskName}\` already has ${bytesText(sizeMib * MIB_BYTES)}`;
    await run.stage("Resizing disk", `${diskName} to ${bytesText(sizeMib * MIB_BYTES)}`, async () => {
      const resized = await context.cpi.call("resizeDisk", recorded(made), { diskCid: made.diskCid, sizeMib }, run);
      const sizes = { sizeMib, ...realSize(resized.sizeBytes) };
      await dynamicDisk(context, run, diskName).change((current) => ({ ...current, ...sizes }));
    });
    return `resized disk \`${diskName}\` to ${bytesText(sizeMib * MIB_BYTES)}`;
  });

/** Replaces the disk's I/O limits. */
export const setDynamicDiskLimits: Planner<"set_dynamic_disk_limits", DiskJobContext> = (
  context,
  { diskName, limits, scope },
  tables,
) =>
  stepOn(context, tables, { diskName, scope }, async (run) => {
    const made = requireMade(await context.tablet.read((now) => diskIn(scope, now, diskName)), diskName);
    const stage = limits === null ? "Lifting limits of disk" : "Limiting disk";
    await run.stage(stage, diskName, async () => {
      const request = { diskCid: made.diskCid, limits: limits ?? undefined };
      await context.cpi.call("setDiskLimits", recorded(made), request, run);
      await dynamicDisk(context, run, diskName).change((current) => ({ ...current, limits: limits ?? NO_LIMITS }));
    });
    const text = ioLimitsText(limits ?? undefined);
    return text === "" ? `lifted all limits of disk \`${diskName}\`` : `limited disk \`${diskName}\` to ${text}`;
  });

const NO_LIMITS = { readIops: 0, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };

function stepOn(
  context: DiskJobContext,
  tables: DirectorTables,
  { diskName, scope }: { readonly diskName: string; readonly scope: Scope | undefined },
  run: (run: TaskRun) => Promise<string>,
): Step {
  const cpis = cpisOfStep(context, tables, diskIn(scope, tables, diskName)?.cpi);
  if (isNameTaken(scope, tables, diskName)) return failingStep(cpis, diskNotFound(diskName));
  return { ...cpis, locks: [{ type: "disk", resource: diskName }], run };
}
