import { Driver, driverMethod, MethodError, nodeMethod, secret, z } from "@diskmesh/driver";

/**
 * Example of a driver by a vendor of drive shelves.
 * @public named in a config
 */
export default class Shelf extends Driver {
  static driverName = "shelf";
  static description = "shelves of Example Ltd";
  static settings = z.strictObject({ slots: z.int().min(1).default(24) });

  slot_of = nodeMethod(
    {
      httpMethods: ["GET"],
      async: false,
      scope: "read",
      exclusiveLock: false,
      description: "In which slot a device is",
      args: z.strictObject({ device_id: z.string() }),
    },
    async ({ device_id }) => {
      const devices = await this.environment.devices();
      const at = devices.findIndex((device) => device.deviceId === device_id);
      if (at < 0) throw new MethodError("not_found", `no device ${device_id} is in the shelf`);
      return { slot: (at % this.environment.settings.slots) + 1 };
    },
  );

  update_firmware = nodeMethod(
    {
      httpMethods: ["POST"],
      async: true,
      description: "Updates the shelf, while nothing else may be done to its node",
      args: z.strictObject({ version: z.string().regex(/^\d+\.\d+$/), key: secret(z.string()) }),
    },
    async ({ version }, { signal }) => {
      signal.throwIfAborted();
      return `the shelf has firmware ${version}`;
    },
  );

  models = driverMethod(
    { httpMethods: ["GET", "POST"], async: false, scope: "read", description: "The shelves that it knows" },
    () => ({ models: ["S24", "S60"] }),
  );
}
