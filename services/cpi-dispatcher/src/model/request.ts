import type { JsonObject } from "@diskmesh/domain";
import type { CpiMethod } from "./methods.js";

/** The caller in a request. */
export interface RequestOrigin {
  readonly directorId: string;
  readonly requestId: string;
  readonly stemcellApiVersion: number;
}

/** The context of a request: who calls, and the CPI's properties, which win over all else as with stock directors. */
export function requestContext(origin: RequestOrigin, properties: JsonObject): JsonObject {
  const { directorId, requestId, stemcellApiVersion } = origin;
  const vm = { stemcell: { api_version: stemcellApiVersion } };
  return { director_uuid: directorId, request_id: requestId, vm, ...properties };
}

/** The request as an executable reads it; `info` asks for the version and so names none. */
export function requestText(
  method: CpiMethod,
  args: readonly unknown[],
  context: JsonObject,
  apiVersion: number | undefined,
): string {
  const version = apiVersion === undefined ? {} : { api_version: apiVersion };
  return JSON.stringify({ method, arguments: args, ...version, context });
}
