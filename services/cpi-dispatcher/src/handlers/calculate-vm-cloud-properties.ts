import type { CalculateVmCloudPropertiesRequest, CalculateVmCloudPropertiesResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { cpiHandler } from "./cpi-handler.js";

export const calculateVmCloudProperties = (context: DispatcherContext) =>
  cpiHandler<CalculateVmCloudPropertiesRequest, CalculateVmCloudPropertiesResponse>(
    context,
    "calculate_vm_cloud_properties",
    async (cpi, request, call) => ({
      cloudProperties: await cpi.calculateVmCloudProperties(request.desired ?? {}, call),
    }),
  );
