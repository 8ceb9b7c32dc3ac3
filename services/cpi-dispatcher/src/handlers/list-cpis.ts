import type { Cpi as CpiMessage, ListCpisRequest, ListCpisResponse } from "@diskmesh/api/cpi";
import type { CpiCall } from "@diskmesh/cpi";
import { messageOf } from "@diskmesh/domain";
import { type CallContext, pageOfItems } from "@diskmesh/rpc";
import type { DispatcherContext } from "../cpis/context.js";
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
    const all = offered.flatMap(({ set, azs, directorId }) => set.cpis.map((cpi) => ({ cpi, azs, directorId })));
    const inOrder = all.sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
    const { pageSize, pageToken } = request;
    const page = pageOfItems({ pageSize, pageToken }, inOrder, { what: "CPIs", keyOf: placeOf });
    const cpis = page.items.map(async ({ cpi, azs, directorId }) => ({
      ...(await describe(cpi, cpiCall)),
      azs: [...(azs.get(cpi.name) ?? [])],
      directorId,
    }));
    return { cpis: await Promise.all(cpis), nextPageToken: page.nextPageToken };
  });
}

const placeOf = ({ cpi, directorId }: { readonly cpi: OfferedCpi; readonly directorId: string }) =>
  `${directorId} ${cpi.name}`;

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
