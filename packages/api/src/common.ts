export * from "./generated/diskmesh/common/v1/stamp.js";
