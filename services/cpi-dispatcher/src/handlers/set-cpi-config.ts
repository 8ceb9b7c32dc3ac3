import { createHash } from "node:crypto";
import { SetCpiConfigRequest, type SetCpiConfigResponse } from "@diskmesh/api/cpi";
import { InvalidArgumentError, parseName, parseOptionalName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../cpis/context.js";
import type { AzsByCpi } from "../cpis/cpi-configs.js";
import { parseDirector } from "./cpi-method.js";

export async function setCpiConfig(
  context: DispatcherContext,
  request: SetCpiConfigRequest,
  call: CallContext,
): Promise<SetCpiConfigResponse> {
  const director = parseDirector(request.directorId, request.directorGeneration);
  const version = parseOptionalName("cpi_config_version", request.cpiConfigVersion);
  if (version === undefined && request.cpis.length > 0)
    throw new InvalidArgumentError("cpi_config_version is empty: give the version of these CPIs a name", {
      about: { field: "cpi_config_version" },
    });
  const { configs, maker } = context;
  await context.fence.run(director, call.signal, async () => {
    if (version === undefined) return configs.forget(director.directorId);
    const told = { version, ...fingerprintOf(request), azs: azsOf(request) };
    configs.set(director.directorId, told, () => maker.makeSet(director.directorId, request.cpis, configs.own));
  });
  return {};
}

/**
 * Returns a fingerprint of the CPIs, which avoids another copy of their secrets. AZs are excluded, because they come
 * from the cloud config.
 */
function fingerprintOf({ cpis }: SetCpiConfigRequest): { fingerprint: string; sizeBytes: number } {
  const withoutAzs = cpis.map((cpi) => ({ ...cpi, azs: [] }));
  const bytes = SetCpiConfigRequest.encode(SetCpiConfigRequest.fromPartial({ cpis: withoutAzs })).finish();
  return { fingerprint: createHash("sha256").update(bytes).digest("hex"), sizeBytes: bytes.length };
}

function azsOf({ cpis }: SetCpiConfigRequest): AzsByCpi {
  return new Map(cpis.map(({ name, azs }) => [name, azs.map((az) => parseName("azs", az)).sort()]));
}
