import type { DeviceTable } from "./device-table.js";

/** Returns the result of work that does not throw; undefined after the answer timeout, while the work goes on. */
export async function inTime<Result>(
  devices: Pick<DeviceTable, "until" | "changes">,
  work: Promise<Result>,
): Promise<{ readonly result: Result } | undefined> {
  let ended: { readonly result: Result } | undefined;
  void work.then((result) => {
    ended = { result };
    devices.changes.touch();
  });
  return devices.until(() => ended);
}
