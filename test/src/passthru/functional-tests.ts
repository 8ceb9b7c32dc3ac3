/** Functional tests of bare metal in openstacksdk 4.22 that need what hosts are not, with the reason. Others must pass. */
export const EXCLUDED_FUNCTIONAL_TESTS: readonly {
  readonly why: string;
  /** Names of tests without "test_", by class. */
  readonly classes: Readonly<Record<string, string>>;
}[] = [
  {
    why: "there are no allocations, and a node has no provision state",
    classes: {
      "test_allocation.TestBareMetalAllocation":
        "allocation_create_get_delete allocation_fields allocation_list allocation_negative_failure allocation_negative_non_existing",
      "test_allocation.TestBareMetalAllocationUpdate": "allocation_patch allocation_update",
    },
  },
  {
    why: "there are no chassis",
    classes: {
      "test_chassis.TestBareMetalChassis":
        "chassis_create_get_delete chassis_negative_non_existing chassis_patch chassis_update",
      "test_chassis.TestBareMetalChassisFields": "chassis_fields",
    },
  },
  {
    why: "there are no conductors",
    classes: {
      "test_conductor.TestBareMetalConductor": "list_get_conductor",
    },
  },
  {
    why: "nodes are not deployed",
    classes: {
      "test_deploy_templates.TestBareMetalDeployTemplate":
        "baremetal_deploy_create_get_delete baremetal_deploy_list_update_delete baremetal_deploy_template_list baremetal_deploy_update deploy_template_patch",
    },
  },
  {
    why: "a driver has no conductors, and no interface but vendor",
    classes: {
      "test_driver.TestBareMetalDriver": "fake_hardware_get",
      "test_driver.TestBareMetalDriverDetails": "fake_hardware_get fake_hardware_list_details",
    },
  },
  {
    why: "nodes are not inspected",
    classes: {
      "test_inspection_rules.TestBareMetalInspectionRule":
        "baremetal_inspection_rule_create_get_delete baremetal_inspection_rule_list baremetal_inspection_rule_list_update_delete baremetal_inspection_rule_update inspection_rule_patch",
    },
  },
  {
    why: "a node is a host: it is not created, changed, powered or deployed here, and has a vendor interface only",
    classes: {
      "test_node.TestBareMetalNode":
        "maintenance maintenance_via_update node_create_get_delete node_create_in_available node_create_in_enroll_provide node_create_in_enroll_provide_by_name node_list_update_delete node_patch node_power_state node_update node_update_by_name node_validate",
      "test_node.TestBareMetalNodeInstanceName":
        "node_instance_name node_instance_name_query node_instance_name_with_instance_info",
      "test_node.TestBareMetalNodeListFirmware": "list_firmware",
      "test_node.TestBareMetalVif": "node_vif_attach_detach",
      "test_node.TestBareMetalVirtualMedia": "node_vmedia_attach_detach",
      "test_node.TestNodeRetired": "retired retired_in_available",
      "test_node.TestTraits": "add_remove_node_trait set_node_traits",
    },
  },
  {
    why: "nodes have no ports",
    classes: {
      "test_port.TestBareMetalPort": "port_create_get_delete port_list port_list_update_delete port_patch port_update",
      "test_port.TestBareMetalPortFields": "port_fields",
    },
  },
  {
    why: "nodes have no ports",
    classes: {
      "test_port_group.TestBareMetalPortGroup":
        "port_group_create_get_delete port_group_fields port_group_negative_non_existing port_group_patch port_group_update port_list port_list_update_delete",
    },
  },
  {
    why: "nodes are not deployed",
    classes: {
      "test_runbooks.TestBareMetalRunbook":
        "baremetal_runbook_create_get_delete baremetal_runbook_list baremetal_runbook_list_update_delete baremetal_runbook_update runbook_patch runbook_rbac_project_scoped runbook_rbac_system_scoped",
      "test_runbooks.TestBareMetalRunbookTraits":
        "runbook_add_remove_trait runbook_description runbook_logical_name runbook_set_traits",
    },
  },
  {
    why: "nodes have no volumes, and no provision state",
    classes: {
      "test_volume_connector.TestBareMetalVolumeconnector":
        "volume_connector_create_get_delete volume_connector_fields volume_connector_list volume_connector_list_update_delete volume_connector_negative_non_existing volume_connector_patch volume_connector_update",
    },
  },
  {
    why: "nodes have no volumes, and no provision state",
    classes: {
      "test_volume_target.TestBareMetalVolumetarget":
        "volume_target_create_get_delete volume_target_fields volume_target_list volume_target_list_update_delete volume_target_negative_non_existing volume_target_patch volume_target_update",
    },
  },
];
