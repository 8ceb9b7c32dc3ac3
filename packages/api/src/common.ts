export * from "./generated/diskmesh/common/v1/admin.js";
export * from "./generated/diskmesh/common/v1/stamp.js";
