import { durationMsConfig, pathConfig, secretConfig } from "@diskmesh/service";
import * as z from "zod";

const properties = z.record(z.string(), z.unknown());

/** The properties of a CPI, as in a cpi-config. */
export const propertiesFile = secretConfig(properties);

/** The objects that a trial makes: arguments of create_stemcell, create_vm and create_disk. */
export const objectsFile = z.strictObject({
  stemcell: z
    .strictObject({
      /** An image that the trial makes a stemcell of. */
      image: pathConfig.optional(),
      /** A stemcell that is there already, and stays. */
      cid: z.string().min(1).optional(),
      cloud_properties: properties.default({}),
      api_version: z.int().min(1).max(3).default(3),
    })
    .prefault({}),
  vm: z
    .strictObject({
      cloud_properties: properties.default({}),
      networks: properties.default({}),
      env: properties.default({}),
    })
    .prefault({}),
  disk: z
    .strictObject({ size_mib: z.int().min(1).default(1_024), cloud_properties: properties.default({}) })
    .prefault({}),
  call_timeout_ms: durationMsConfig.default(600_000),
});

export type TrialObjects = z.output<typeof objectsFile>;
