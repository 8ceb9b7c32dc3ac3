export * from "./generated/diskmesh/rpc/v1/carrier_service.js";
