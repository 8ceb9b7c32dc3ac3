export * from "./generated/diskmesh/cpi/v1/cpi_service.js";
