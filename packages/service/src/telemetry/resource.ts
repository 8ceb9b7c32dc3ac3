import { randomUUID } from "node:crypto";
import { VERSION } from "@diskmesh/domain";
import type { Resource } from "@opentelemetry/resources";
import type { TelemetryOptions } from "../config/telemetry-options.js";

/** Differs for each start of a process, so that two processes of a service, or of a host, are told apart. */
const INSTANCE_ID = randomUUID();

/**
 * Returns the resource of this process's traces and metrics: service, instance, and the host's name and id. Resource
 * attributes of `OTEL_RESOURCE_ATTRIBUTES` go first. Arguments of the process are left out, because these may be secret.
 */
export async function resourceOf({ service, env }: Pick<TelemetryOptions, "service" | "env">): Promise<Resource> {
  const { defaultResource, detectResources, envDetector, hostDetector, resourceFromAttributes } = await import(
    "@opentelemetry/resources"
  );
  const own = resourceFromAttributes({
    "service.name": service,
    "service.version": VERSION,
    "service.instance.id": INSTANCE_ID,
  });
  const resource = defaultResource()
    .merge(own)
    .merge(detectResources({ detectors: [hostDetector, envDetector] }));
  const named = env.OTEL_SERVICE_NAME;
  return named ? resource.merge(resourceFromAttributes({ "service.name": named })) : resource;
}
