import type { InfoRequest, InfoResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { cpiHandler } from "./cpi-handler.js";

export const info = (context: DispatcherContext) =>
  cpiHandler<InfoRequest, InfoResponse>(context, "info", async (cpi, _request, call) => {
    const { apiVersion, stemcellFormats, findsByToken } = await cpi.info(call);
    return { apiVersion, stemcellFormats: [...stemcellFormats], findsByToken };
  });
