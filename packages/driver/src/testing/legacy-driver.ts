import type { JsonObject } from "@diskmesh/domain";

/**
 * A LegacyDriver: one function handles all calls.
 *
 * @public loaded by its path
 */
export default class LegacyDriver {
  static readonly driverName = "legacy";

  vendorPassthru(method: string, args: JsonObject): unknown {
    return { method, args };
  }

  driverVendorPassthru(method: string, args: JsonObject): unknown {
    return { method, args };
  }
}
