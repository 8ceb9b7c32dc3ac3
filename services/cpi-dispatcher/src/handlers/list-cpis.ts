import type { Cpi as CpiMessage, ListCpisRequest, ListCpisResponse } from "@diskmesh/api/cpi";
import type { CpiCall } from "@diskmesh/cpi";
import { messageOf } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../cpis/context.js";
import type { Offered } from "../cpis/cpi-configs.js";
import type { OfferedCpi } from "../cpis/cpi-set.js";
import { endingEarly } from "../cpis/ending-early.js";
import { withCpis } from "./cpi-method.js";

/** Lists the CPIs. A CPI whose info fails is listed with its error. */
export function listCpis(
  context: DispatcherContext,
  request: ListCpisRequest,
  call: CallContext,
): Promise<ListCpisResponse> {
  return withCpis(context, request.context, call, async (named, _wanted, cpiCall) => {
    const offered = request.context === undefined ? context.configs.newest() : [named];
    return { cpis: (await Promise.all(offered.map((each) => describeAll(each, cpiCall)))).flat() };
  });
}

async function describeAll({ set, azs, directorId }: Offered, call: CpiCall): Promise<CpiMessage[]> {
  const inOrder = [...set.cpis].sort((a, b) => (a.name < b.name ? -1 : 1));
  return Promise.all(
    inOrder.map(async (cpi) => ({ ...(await describe(cpi, call)), azs: [...(azs.get(cpi.name) ?? [])], directorId })),
  );
}

async function describe(offered: OfferedCpi, call: CpiCall): Promise<Omit<CpiMessage, "azs" | "directorId">> {
  const { name, type, lastError } = offered;
  try {
    const { apiVersion, stemcellFormats } = await endingEarly(call, (bounded) => offered.info(bounded));
    return { name, type, apiVersion, stemcellFormats: [...stemcellFormats], lastError };
  } catch (error) {
    if (call.signal.aborted) throw error;
    return { name, type, apiVersion: 0, stemcellFormats: [], lastError: messageOf(error) };
  }
}
