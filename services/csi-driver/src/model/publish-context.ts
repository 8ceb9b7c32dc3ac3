/** Key of the disk's CID in the publish context, which the controller gives to the node. */
export const DISK_CID = "diskCid";
