import { createHash } from "node:crypto";
import { SetCpiConfigRequest, type SetCpiConfigResponse } from "@diskmesh/api/cpi";
import { parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../context.js";
import { parseDirector } from "./cpi-handler.js";

export const setCpiConfig =
  (context: DispatcherContext) =>
  async (request: SetCpiConfigRequest, call: CallContext): Promise<SetCpiConfigResponse> => {
    const director = parseDirector(request.directorId, request.directorGeneration);
    const version = parseName("cpi_config_version", request.cpiConfigVersion);
    const { configs, maker } = context;
    await context.fence.run(director, call.signal, async () => {
      configs.set(director.directorId, version, fingerprintOf(request), () =>
        maker.makeSet(director.directorId, request.cpis, configs.own),
      );
    });
    return {};
  };

/** Of what was told, without keeping another copy of its secrets. */
function fingerprintOf({ cpis }: SetCpiConfigRequest): string {
  const bytes = SetCpiConfigRequest.encode(SetCpiConfigRequest.fromPartial({ cpis })).finish();
  return createHash("sha256").update(bytes).digest("hex");
}
