export * from "./generated/diskmesh/common/v1/admin.js";
