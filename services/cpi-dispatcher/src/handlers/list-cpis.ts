import type { ListCpisRequest, ListCpisResponse } from "@diskmesh/api/cpi";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../context.js";

export const listCpis =
  (context: DispatcherContext) =>
  async (_request: ListCpisRequest, call: CallContext): Promise<ListCpisResponse> => {
    const { signal, deadlineAtMs, requestId } = call;
    const cpiCall = { signal, deadlineAtMs, requestId, directorId: "", stemcellApiVersion: 0 };
    const cpis = await Promise.all(
      context.cpis.map(async ({ name, type, cpi }) => {
        const { apiVersion, stemcellFormats } = await cpi.info(cpiCall);
        return { name, type, apiVersion, stemcellFormats: [...stemcellFormats] };
      }),
    );
    return { cpis: cpis.sort((a, b) => (a.name < b.name ? -1 : 1)) };
  };
