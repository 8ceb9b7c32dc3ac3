import type { Cpi as CpiMessage, ListCpisRequest, ListCpisResponse } from "@diskmesh/api/cpi";
import { messageOf } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../context.js";
import type { CpiCall } from "../cpi.js";
import type { OfferedCpi } from "../cpi-set.js";
import { withCpis } from "./cpi-handler.js";

/** A CPI that does not even say its version is listed with what it met. */
export const listCpis =
  (context: DispatcherContext) =>
  (request: ListCpisRequest, call: CallContext): Promise<ListCpisResponse> =>
    withCpis(context, request.context, call, async (set, _wanted, cpiCall) => {
      const cpis = await Promise.all(set.cpis.map((offered) => describe(offered, cpiCall)));
      return { cpis: cpis.sort((a, b) => (a.name < b.name ? -1 : 1)) };
    });

async function describe({ name, type, cpi, lastError }: OfferedCpi, call: CpiCall): Promise<CpiMessage> {
  try {
    const { apiVersion, stemcellFormats } = await cpi.info(call);
    return { name, type, apiVersion, stemcellFormats: [...stemcellFormats], lastError };
  } catch (error) {
    if (call.signal.aborted) throw error;
    return { name, type, apiVersion: 0, stemcellFormats: [], lastError: messageOf(error) };
  }
}
