import { addressesConfig, listenConfig, rpcLimitsConfig, serviceConfig, tlsConfig } from "@diskmesh/service";
import { z } from "zod";

/** All registries of which one leads. */
const registryConfig = z.strictObject({ address: addressesConfig });

const fleetCpiConfig = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, "give letters, digits, '-' and '_'"),
  type: z.literal("fleet"),
  /** The registry whose hosts are this CPI's VMs; the one given for all by default. */
  registry: registryConfig.optional(),
});

/** The configuration of a dispatcher process. */
export const dispatcherConfig = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  tls: tlsConfig,
  rpc: rpcLimitsConfig,
  registry: registryConfig,
  /** The first one is the default. */
  cpis: z
    .array(fleetCpiConfig)
    .min(1)
    .max(1_000)
    .refine((cpis) => new Set(cpis.map((cpi) => cpi.name)).size === cpis.length, "two CPIs have the same name")
    .default([{ name: "fleet", type: "fleet" }]),
  maxDirectors: z.int().min(1).default(100),
});

export type DispatcherConfig = z.output<typeof dispatcherConfig>;
