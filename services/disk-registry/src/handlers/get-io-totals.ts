import type { GetIoTotalsResponse } from "@diskmesh/api/registry";
import type { Context } from "../calls/context.js";

export async function getIoTotals({ ioMeter }: Pick<Context, "ioMeter">): Promise<GetIoTotalsResponse> {
  return { totals: ioMeter.totals, startTime: new Date(ioMeter.sinceMs) };
}
