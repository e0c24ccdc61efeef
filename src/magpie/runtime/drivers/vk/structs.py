"""Vulkan's structs and functions, as far as the driver uses them.

This file is written by `tools/gen_vulkan_binding.py` from Vulkan's registry, version 1.4.366. Do not edit it.

A field is ``name:kind``, with ``*n`` for arrays; a kind is a letter or another struct of this file. I and i are 32-bit
integers, Q and q 64-bit ones and handles, f and d floats, B bytes, c characters, Z a size_t and P a pointer. A function
is the kind of its result and those of its parameters.
"""

from __future__ import annotations

# fmt: off
#: Struct -> its VkStructureType (-1: it has none) and its fields.
STRUCTS: dict[str, tuple[int, str]] = {
    "VkApplicationInfo": (
        0,
        "sType:i pNext:P pApplicationName:P applicationVersion:I pEngineName:P engineVersion:I apiVersion:I",
    ),
    "VkInstanceCreateInfo": (
        1,
        "sType:i pNext:P flags:I pApplicationInfo:P enabledLayerCount:I ppEnabledLayerNames:P "
        "enabledExtensionCount:I ppEnabledExtensionNames:P",
    ),
    "VkLayerProperties": (
        -1,
        "layerName:c*256 specVersion:I implementationVersion:I description:c*256",
    ),
    "VkExtensionProperties": (
        -1,
        "extensionName:c*256 specVersion:I",
    ),
    "VkDebugUtilsMessengerCreateInfoEXT": (
        1000128004,
        "sType:i pNext:P flags:I messageSeverity:I messageType:I pfnUserCallback:P pUserData:P",
    ),
    "VkDebugUtilsMessengerCallbackDataEXT": (
        1000128003,
        "sType:i pNext:P flags:I pMessageIdName:P messageIdNumber:i pMessage:P queueLabelCount:I pQueueLabels:P "
        "cmdBufLabelCount:I pCmdBufLabels:P objectCount:I pObjects:P",
    ),
    "VkValidationFeaturesEXT": (
        1000247000,
        "sType:i pNext:P enabledValidationFeatureCount:I pEnabledValidationFeatures:P "
        "disabledValidationFeatureCount:I pDisabledValidationFeatures:P",
    ),
    "VkPhysicalDeviceLimits": (
        -1,
        "maxImageDimension1D:I maxImageDimension2D:I maxImageDimension3D:I maxImageDimensionCube:I "
        "maxImageArrayLayers:I maxTexelBufferElements:I maxUniformBufferRange:I maxStorageBufferRange:I "
        "maxPushConstantsSize:I maxMemoryAllocationCount:I maxSamplerAllocationCount:I bufferImageGranularity:Q "
        "sparseAddressSpaceSize:Q maxBoundDescriptorSets:I maxPerStageDescriptorSamplers:I "
        "maxPerStageDescriptorUniformBuffers:I maxPerStageDescriptorStorageBuffers:I "
        "maxPerStageDescriptorSampledImages:I maxPerStageDescriptorStorageImages:I "
        "maxPerStageDescriptorInputAttachments:I maxPerStageResources:I maxDescriptorSetSamplers:I "
        "maxDescriptorSetUniformBuffers:I maxDescriptorSetUniformBuffersDynamic:I "
        "maxDescriptorSetStorageBuffers:I maxDescriptorSetStorageBuffersDynamic:I "
        "maxDescriptorSetSampledImages:I maxDescriptorSetStorageImages:I maxDescriptorSetInputAttachments:I "
        "maxVertexInputAttributes:I maxVertexInputBindings:I maxVertexInputAttributeOffset:I "
        "maxVertexInputBindingStride:I maxVertexOutputComponents:I maxTessellationGenerationLevel:I "
        "maxTessellationPatchSize:I maxTessellationControlPerVertexInputComponents:I "
        "maxTessellationControlPerVertexOutputComponents:I maxTessellationControlPerPatchOutputComponents:I "
        "maxTessellationControlTotalOutputComponents:I maxTessellationEvaluationInputComponents:I "
        "maxTessellationEvaluationOutputComponents:I maxGeometryShaderInvocations:I "
        "maxGeometryInputComponents:I maxGeometryOutputComponents:I maxGeometryOutputVertices:I "
        "maxGeometryTotalOutputComponents:I maxFragmentInputComponents:I maxFragmentOutputAttachments:I "
        "maxFragmentDualSrcAttachments:I maxFragmentCombinedOutputResources:I maxComputeSharedMemorySize:I "
        "maxComputeWorkGroupCount:I*3 maxComputeWorkGroupInvocations:I maxComputeWorkGroupSize:I*3 "
        "subPixelPrecisionBits:I subTexelPrecisionBits:I mipmapPrecisionBits:I maxDrawIndexedIndexValue:I "
        "maxDrawIndirectCount:I maxSamplerLodBias:f maxSamplerAnisotropy:f maxViewports:I "
        "maxViewportDimensions:I*2 viewportBoundsRange:f*2 viewportSubPixelBits:I minMemoryMapAlignment:Z "
        "minTexelBufferOffsetAlignment:Q minUniformBufferOffsetAlignment:Q minStorageBufferOffsetAlignment:Q "
        "minTexelOffset:i maxTexelOffset:I minTexelGatherOffset:i maxTexelGatherOffset:I "
        "minInterpolationOffset:f maxInterpolationOffset:f subPixelInterpolationOffsetBits:I "
        "maxFramebufferWidth:I maxFramebufferHeight:I maxFramebufferLayers:I framebufferColorSampleCounts:I "
        "framebufferDepthSampleCounts:I framebufferStencilSampleCounts:I framebufferNoAttachmentsSampleCounts:I "
        "maxColorAttachments:I sampledImageColorSampleCounts:I sampledImageIntegerSampleCounts:I "
        "sampledImageDepthSampleCounts:I sampledImageStencilSampleCounts:I storageImageSampleCounts:I "
        "maxSampleMaskWords:I timestampComputeAndGraphics:I timestampPeriod:f maxClipDistances:I "
        "maxCullDistances:I maxCombinedClipAndCullDistances:I discreteQueuePriorities:I pointSizeRange:f*2 "
        "lineWidthRange:f*2 pointSizeGranularity:f lineWidthGranularity:f strictLines:I "
        "standardSampleLocations:I optimalBufferCopyOffsetAlignment:Q optimalBufferCopyRowPitchAlignment:Q "
        "nonCoherentAtomSize:Q",
    ),
    "VkPhysicalDeviceSparseProperties": (
        -1,
        "residencyStandard2DBlockShape:I residencyStandard2DMultisampleBlockShape:I "
        "residencyStandard3DBlockShape:I residencyAlignedMipSize:I residencyNonResidentStrict:I",
    ),
    "VkPhysicalDeviceProperties": (
        -1,
        "apiVersion:I driverVersion:I vendorID:I deviceID:I deviceType:i deviceName:c*256 "
        "pipelineCacheUUID:B*16 limits:VkPhysicalDeviceLimits sparseProperties:VkPhysicalDeviceSparseProperties",
    ),
    "VkPhysicalDeviceProperties2": (
        1000059001,
        "sType:i pNext:P properties:VkPhysicalDeviceProperties",
    ),
    "VkPhysicalDeviceVulkan11Properties": (
        50,
        "sType:i pNext:P deviceUUID:B*16 driverUUID:B*16 deviceLUID:B*8 deviceNodeMask:I deviceLUIDValid:I "
        "subgroupSize:I subgroupSupportedStages:I subgroupSupportedOperations:I "
        "subgroupQuadOperationsInAllStages:I pointClippingBehavior:i maxMultiviewViewCount:I "
        "maxMultiviewInstanceIndex:I protectedNoFault:I maxPerSetDescriptors:I maxMemoryAllocationSize:Q",
    ),
    "VkConformanceVersion": (
        -1,
        "major:B minor:B subminor:B patch:B",
    ),
    "VkPhysicalDeviceVulkan12Properties": (
        52,
        "sType:i pNext:P driverID:i driverName:c*256 driverInfo:c*256 conformanceVersion:VkConformanceVersion "
        "denormBehaviorIndependence:i roundingModeIndependence:i shaderSignedZeroInfNanPreserveFloat16:I "
        "shaderSignedZeroInfNanPreserveFloat32:I shaderSignedZeroInfNanPreserveFloat64:I "
        "shaderDenormPreserveFloat16:I shaderDenormPreserveFloat32:I shaderDenormPreserveFloat64:I "
        "shaderDenormFlushToZeroFloat16:I shaderDenormFlushToZeroFloat32:I shaderDenormFlushToZeroFloat64:I "
        "shaderRoundingModeRTEFloat16:I shaderRoundingModeRTEFloat32:I shaderRoundingModeRTEFloat64:I "
        "shaderRoundingModeRTZFloat16:I shaderRoundingModeRTZFloat32:I shaderRoundingModeRTZFloat64:I "
        "maxUpdateAfterBindDescriptorsInAllPools:I shaderUniformBufferArrayNonUniformIndexingNative:I "
        "shaderSampledImageArrayNonUniformIndexingNative:I shaderStorageBufferArrayNonUniformIndexingNative:I "
        "shaderStorageImageArrayNonUniformIndexingNative:I shaderInputAttachmentArrayNonUniformIndexingNative:I "
        "robustBufferAccessUpdateAfterBind:I quadDivergentImplicitLod:I "
        "maxPerStageDescriptorUpdateAfterBindSamplers:I maxPerStageDescriptorUpdateAfterBindUniformBuffers:I "
        "maxPerStageDescriptorUpdateAfterBindStorageBuffers:I "
        "maxPerStageDescriptorUpdateAfterBindSampledImages:I "
        "maxPerStageDescriptorUpdateAfterBindStorageImages:I "
        "maxPerStageDescriptorUpdateAfterBindInputAttachments:I maxPerStageUpdateAfterBindResources:I "
        "maxDescriptorSetUpdateAfterBindSamplers:I maxDescriptorSetUpdateAfterBindUniformBuffers:I "
        "maxDescriptorSetUpdateAfterBindUniformBuffersDynamic:I maxDescriptorSetUpdateAfterBindStorageBuffers:I "
        "maxDescriptorSetUpdateAfterBindStorageBuffersDynamic:I maxDescriptorSetUpdateAfterBindSampledImages:I "
        "maxDescriptorSetUpdateAfterBindStorageImages:I maxDescriptorSetUpdateAfterBindInputAttachments:I "
        "supportedDepthResolveModes:I supportedStencilResolveModes:I independentResolveNone:I "
        "independentResolve:I filterMinmaxSingleComponentFormats:I filterMinmaxImageComponentMapping:I "
        "maxTimelineSemaphoreValueDifference:Q framebufferIntegerColorSampleCounts:I",
    ),
    "VkPhysicalDeviceVulkan13Properties": (
        54,
        "sType:i pNext:P minSubgroupSize:I maxSubgroupSize:I maxComputeWorkgroupSubgroups:I "
        "requiredSubgroupSizeStages:I maxInlineUniformBlockSize:I maxPerStageDescriptorInlineUniformBlocks:I "
        "maxPerStageDescriptorUpdateAfterBindInlineUniformBlocks:I maxDescriptorSetInlineUniformBlocks:I "
        "maxDescriptorSetUpdateAfterBindInlineUniformBlocks:I maxInlineUniformTotalSize:I "
        "integerDotProduct8BitUnsignedAccelerated:I integerDotProduct8BitSignedAccelerated:I "
        "integerDotProduct8BitMixedSignednessAccelerated:I integerDotProduct4x8BitPackedUnsignedAccelerated:I "
        "integerDotProduct4x8BitPackedSignedAccelerated:I "
        "integerDotProduct4x8BitPackedMixedSignednessAccelerated:I integerDotProduct16BitUnsignedAccelerated:I "
        "integerDotProduct16BitSignedAccelerated:I integerDotProduct16BitMixedSignednessAccelerated:I "
        "integerDotProduct32BitUnsignedAccelerated:I integerDotProduct32BitSignedAccelerated:I "
        "integerDotProduct32BitMixedSignednessAccelerated:I integerDotProduct64BitUnsignedAccelerated:I "
        "integerDotProduct64BitSignedAccelerated:I integerDotProduct64BitMixedSignednessAccelerated:I "
        "integerDotProductAccumulatingSaturating8BitUnsignedAccelerated:I "
        "integerDotProductAccumulatingSaturating8BitSignedAccelerated:I "
        "integerDotProductAccumulatingSaturating8BitMixedSignednessAccelerated:I "
        "integerDotProductAccumulatingSaturating4x8BitPackedUnsignedAccelerated:I "
        "integerDotProductAccumulatingSaturating4x8BitPackedSignedAccelerated:I "
        "integerDotProductAccumulatingSaturating4x8BitPackedMixedSignednessAccelerated:I "
        "integerDotProductAccumulatingSaturating16BitUnsignedAccelerated:I "
        "integerDotProductAccumulatingSaturating16BitSignedAccelerated:I "
        "integerDotProductAccumulatingSaturating16BitMixedSignednessAccelerated:I "
        "integerDotProductAccumulatingSaturating32BitUnsignedAccelerated:I "
        "integerDotProductAccumulatingSaturating32BitSignedAccelerated:I "
        "integerDotProductAccumulatingSaturating32BitMixedSignednessAccelerated:I "
        "integerDotProductAccumulatingSaturating64BitUnsignedAccelerated:I "
        "integerDotProductAccumulatingSaturating64BitSignedAccelerated:I "
        "integerDotProductAccumulatingSaturating64BitMixedSignednessAccelerated:I "
        "storageTexelBufferOffsetAlignmentBytes:Q storageTexelBufferOffsetSingleTexelAlignment:I "
        "uniformTexelBufferOffsetAlignmentBytes:Q uniformTexelBufferOffsetSingleTexelAlignment:I "
        "maxBufferSize:Q",
    ),
    "VkPhysicalDevicePushDescriptorProperties": (
        1000080000,
        "sType:i pNext:P maxPushDescriptors:I",
    ),
    "VkPhysicalDeviceShaderSMBuiltinsPropertiesNV": (
        1000154001,
        "sType:i pNext:P shaderSMCount:I shaderWarpsPerSM:I",
    ),
    "VkPhysicalDeviceShaderCorePropertiesAMD": (
        1000185000,
        "sType:i pNext:P shaderEngineCount:I shaderArraysPerEngineCount:I computeUnitsPerShaderArray:I "
        "simdPerComputeUnit:I wavefrontsPerSimd:I wavefrontSize:I sgprsPerSimd:I minSgprAllocation:I "
        "maxSgprAllocation:I sgprAllocationGranularity:I vgprsPerSimd:I minVgprAllocation:I maxVgprAllocation:I "
        "vgprAllocationGranularity:I",
    ),
    "VkPhysicalDeviceFeatures": (
        -1,
        "robustBufferAccess:I fullDrawIndexUint32:I imageCubeArray:I independentBlend:I geometryShader:I "
        "tessellationShader:I sampleRateShading:I dualSrcBlend:I logicOp:I multiDrawIndirect:I "
        "drawIndirectFirstInstance:I depthClamp:I depthBiasClamp:I fillModeNonSolid:I depthBounds:I wideLines:I "
        "largePoints:I alphaToOne:I multiViewport:I samplerAnisotropy:I textureCompressionETC2:I "
        "textureCompressionASTC_LDR:I textureCompressionBC:I occlusionQueryPrecise:I pipelineStatisticsQuery:I "
        "vertexPipelineStoresAndAtomics:I fragmentStoresAndAtomics:I shaderTessellationAndGeometryPointSize:I "
        "shaderImageGatherExtended:I shaderStorageImageExtendedFormats:I shaderStorageImageMultisample:I "
        "shaderStorageImageReadWithoutFormat:I shaderStorageImageWriteWithoutFormat:I "
        "shaderUniformBufferArrayDynamicIndexing:I shaderSampledImageArrayDynamicIndexing:I "
        "shaderStorageBufferArrayDynamicIndexing:I shaderStorageImageArrayDynamicIndexing:I "
        "shaderClipDistance:I shaderCullDistance:I shaderFloat64:I shaderInt64:I shaderInt16:I "
        "shaderResourceResidency:I shaderResourceMinLod:I sparseBinding:I sparseResidencyBuffer:I "
        "sparseResidencyImage2D:I sparseResidencyImage3D:I sparseResidency2Samples:I sparseResidency4Samples:I "
        "sparseResidency8Samples:I sparseResidency16Samples:I sparseResidencyAliased:I "
        "variableMultisampleRate:I inheritedQueries:I",
    ),
    "VkPhysicalDeviceFeatures2": (
        1000059000,
        "sType:i pNext:P features:VkPhysicalDeviceFeatures",
    ),
    "VkPhysicalDeviceVulkan11Features": (
        49,
        "sType:i pNext:P storageBuffer16BitAccess:I uniformAndStorageBuffer16BitAccess:I "
        "storagePushConstant16:I storageInputOutput16:I multiview:I multiviewGeometryShader:I "
        "multiviewTessellationShader:I variablePointersStorageBuffer:I variablePointers:I protectedMemory:I "
        "samplerYcbcrConversion:I shaderDrawParameters:I",
    ),
    "VkPhysicalDeviceVulkan12Features": (
        51,
        "sType:i pNext:P samplerMirrorClampToEdge:I drawIndirectCount:I storageBuffer8BitAccess:I "
        "uniformAndStorageBuffer8BitAccess:I storagePushConstant8:I shaderBufferInt64Atomics:I "
        "shaderSharedInt64Atomics:I shaderFloat16:I shaderInt8:I descriptorIndexing:I "
        "shaderInputAttachmentArrayDynamicIndexing:I shaderUniformTexelBufferArrayDynamicIndexing:I "
        "shaderStorageTexelBufferArrayDynamicIndexing:I shaderUniformBufferArrayNonUniformIndexing:I "
        "shaderSampledImageArrayNonUniformIndexing:I shaderStorageBufferArrayNonUniformIndexing:I "
        "shaderStorageImageArrayNonUniformIndexing:I shaderInputAttachmentArrayNonUniformIndexing:I "
        "shaderUniformTexelBufferArrayNonUniformIndexing:I shaderStorageTexelBufferArrayNonUniformIndexing:I "
        "descriptorBindingUniformBufferUpdateAfterBind:I descriptorBindingSampledImageUpdateAfterBind:I "
        "descriptorBindingStorageImageUpdateAfterBind:I descriptorBindingStorageBufferUpdateAfterBind:I "
        "descriptorBindingUniformTexelBufferUpdateAfterBind:I "
        "descriptorBindingStorageTexelBufferUpdateAfterBind:I descriptorBindingUpdateUnusedWhilePending:I "
        "descriptorBindingPartiallyBound:I descriptorBindingVariableDescriptorCount:I runtimeDescriptorArray:I "
        "samplerFilterMinmax:I scalarBlockLayout:I imagelessFramebuffer:I uniformBufferStandardLayout:I "
        "shaderSubgroupExtendedTypes:I separateDepthStencilLayouts:I hostQueryReset:I timelineSemaphore:I "
        "bufferDeviceAddress:I bufferDeviceAddressCaptureReplay:I bufferDeviceAddressMultiDevice:I "
        "vulkanMemoryModel:I vulkanMemoryModelDeviceScope:I vulkanMemoryModelAvailabilityVisibilityChains:I "
        "shaderOutputViewportIndex:I shaderOutputLayer:I subgroupBroadcastDynamicId:I",
    ),
    "VkPhysicalDeviceVulkan13Features": (
        53,
        "sType:i pNext:P robustImageAccess:I inlineUniformBlock:I "
        "descriptorBindingInlineUniformBlockUpdateAfterBind:I pipelineCreationCacheControl:I privateData:I "
        "shaderDemoteToHelperInvocation:I shaderTerminateInvocation:I subgroupSizeControl:I "
        "computeFullSubgroups:I synchronization2:I textureCompressionASTC_HDR:I "
        "shaderZeroInitializeWorkgroupMemory:I dynamicRendering:I shaderIntegerDotProduct:I maintenance4:I",
    ),
    "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT": (
        1000260000,
        "sType:i pNext:P shaderBufferFloat32Atomics:I shaderBufferFloat32AtomicAdd:I "
        "shaderBufferFloat64Atomics:I shaderBufferFloat64AtomicAdd:I shaderSharedFloat32Atomics:I "
        "shaderSharedFloat32AtomicAdd:I shaderSharedFloat64Atomics:I shaderSharedFloat64AtomicAdd:I "
        "shaderImageFloat32Atomics:I shaderImageFloat32AtomicAdd:I sparseImageFloat32Atomics:I "
        "sparseImageFloat32AtomicAdd:I",
    ),
    "VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR": (
        1000434000,
        "sType:i pNext:P shaderMaximalReconvergence:I",
    ),
    "VkPhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR": (
        1000323000,
        "sType:i pNext:P shaderSubgroupUniformControlFlow:I",
    ),
    "VkPhysicalDeviceCooperativeMatrixFeaturesKHR": (
        1000506000,
        "sType:i pNext:P cooperativeMatrix:I cooperativeMatrixRobustBufferAccess:I",
    ),
    "VkPhysicalDeviceCooperativeMatrixPropertiesKHR": (
        1000506002,
        "sType:i pNext:P cooperativeMatrixSupportedStages:I",
    ),
    "VkCooperativeMatrixPropertiesKHR": (
        1000506001,
        "sType:i pNext:P MSize:I NSize:I KSize:I AType:i BType:i CType:i ResultType:i saturatingAccumulation:I "
        "scope:i",
    ),
    "VkPhysicalDeviceShaderBfloat16FeaturesKHR": (
        1000141000,
        "sType:i pNext:P shaderBFloat16Type:I shaderBFloat16DotProduct:I shaderBFloat16CooperativeMatrix:I",
    ),
    "VkMemoryType": (
        -1,
        "propertyFlags:I heapIndex:I",
    ),
    "VkMemoryHeap": (
        -1,
        "size:Q flags:I",
    ),
    "VkPhysicalDeviceMemoryProperties": (
        -1,
        "memoryTypeCount:I memoryTypes:VkMemoryType*32 memoryHeapCount:I memoryHeaps:VkMemoryHeap*16",
    ),
    "VkPhysicalDeviceMemoryProperties2": (
        1000059006,
        "sType:i pNext:P memoryProperties:VkPhysicalDeviceMemoryProperties",
    ),
    "VkPhysicalDeviceMemoryBudgetPropertiesEXT": (
        1000237000,
        "sType:i pNext:P heapBudget:Q*16 heapUsage:Q*16",
    ),
    "VkExtent3D": (
        -1,
        "width:I height:I depth:I",
    ),
    "VkQueueFamilyProperties": (
        -1,
        "queueFlags:I queueCount:I timestampValidBits:I minImageTransferGranularity:VkExtent3D",
    ),
    "VkQueueFamilyProperties2": (
        1000059005,
        "sType:i pNext:P queueFamilyProperties:VkQueueFamilyProperties",
    ),
    "VkDeviceQueueCreateInfo": (
        2,
        "sType:i pNext:P flags:I queueFamilyIndex:I queueCount:I pQueuePriorities:P",
    ),
    "VkDeviceCreateInfo": (
        3,
        "sType:i pNext:P flags:I queueCreateInfoCount:I pQueueCreateInfos:P enabledLayerCount:I "
        "ppEnabledLayerNames:P enabledExtensionCount:I ppEnabledExtensionNames:P pEnabledFeatures:P",
    ),
    "VkMemoryAllocateInfo": (
        5,
        "sType:i pNext:P allocationSize:Q memoryTypeIndex:I",
    ),
    "VkBufferCreateInfo": (
        12,
        "sType:i pNext:P flags:I size:Q usage:I sharingMode:i queueFamilyIndexCount:I pQueueFamilyIndices:P",
    ),
    "VkMemoryRequirements": (
        -1,
        "size:Q alignment:Q memoryTypeBits:I",
    ),
    "VkCommandPoolCreateInfo": (
        39,
        "sType:i pNext:P flags:I queueFamilyIndex:I",
    ),
    "VkCommandBufferAllocateInfo": (
        40,
        "sType:i pNext:P commandPool:Q level:i commandBufferCount:I",
    ),
    "VkCommandBufferBeginInfo": (
        42,
        "sType:i pNext:P flags:I pInheritanceInfo:P",
    ),
    "VkMemoryBarrier": (
        46,
        "sType:i pNext:P srcAccessMask:I dstAccessMask:I",
    ),
    "VkBufferCopy": (
        -1,
        "srcOffset:Q dstOffset:Q size:Q",
    ),
    "VkSubmitInfo": (
        4,
        "sType:i pNext:P waitSemaphoreCount:I pWaitSemaphores:P pWaitDstStageMask:P commandBufferCount:I "
        "pCommandBuffers:P signalSemaphoreCount:I pSignalSemaphores:P",
    ),
    "VkTimelineSemaphoreSubmitInfo": (
        1000207003,
        "sType:i pNext:P waitSemaphoreValueCount:I pWaitSemaphoreValues:P signalSemaphoreValueCount:I "
        "pSignalSemaphoreValues:P",
    ),
    "VkSemaphoreCreateInfo": (
        9,
        "sType:i pNext:P flags:I",
    ),
    "VkSemaphoreTypeCreateInfo": (
        1000207002,
        "sType:i pNext:P semaphoreType:i initialValue:Q",
    ),
    "VkSemaphoreWaitInfo": (
        1000207004,
        "sType:i pNext:P flags:I semaphoreCount:I pSemaphores:P pValues:P",
    ),
    "VkQueryPoolCreateInfo": (
        11,
        "sType:i pNext:P flags:I queryType:i queryCount:I pipelineStatistics:I",
    ),
    "VkShaderModuleCreateInfo": (
        16,
        "sType:i pNext:P flags:I codeSize:Z pCode:P",
    ),
    "VkDescriptorSetLayoutBinding": (
        -1,
        "binding:I descriptorType:i descriptorCount:I stageFlags:I pImmutableSamplers:P",
    ),
    "VkDescriptorSetLayoutCreateInfo": (
        32,
        "sType:i pNext:P flags:I bindingCount:I pBindings:P",
    ),
    "VkPushConstantRange": (
        -1,
        "stageFlags:I offset:I size:I",
    ),
    "VkPipelineLayoutCreateInfo": (
        30,
        "sType:i pNext:P flags:I setLayoutCount:I pSetLayouts:P pushConstantRangeCount:I pPushConstantRanges:P",
    ),
    "VkSpecializationMapEntry": (
        -1,
        "constantID:I offset:I size:Z",
    ),
    "VkSpecializationInfo": (
        -1,
        "mapEntryCount:I pMapEntries:P dataSize:Z pData:P",
    ),
    "VkPipelineShaderStageCreateInfo": (
        18,
        "sType:i pNext:P flags:I stage:I module:Q pName:P pSpecializationInfo:P",
    ),
    "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo": (
        1000225001,
        "sType:i pNext:P requiredSubgroupSize:I",
    ),
    "VkComputePipelineCreateInfo": (
        29,
        "sType:i pNext:P flags:I stage:VkPipelineShaderStageCreateInfo layout:Q basePipelineHandle:Q "
        "basePipelineIndex:i",
    ),
    "VkPipelineCacheCreateInfo": (
        17,
        "sType:i pNext:P flags:I initialDataSize:Z pInitialData:P",
    ),
    "VkDescriptorPoolSize": (
        -1,
        "type:i descriptorCount:I",
    ),
    "VkDescriptorPoolCreateInfo": (
        33,
        "sType:i pNext:P flags:I maxSets:I poolSizeCount:I pPoolSizes:P",
    ),
    "VkDescriptorSetAllocateInfo": (
        34,
        "sType:i pNext:P descriptorPool:Q descriptorSetCount:I pSetLayouts:P",
    ),
    "VkDescriptorBufferInfo": (
        -1,
        "buffer:Q offset:Q range:Q",
    ),
    "VkWriteDescriptorSet": (
        35,
        "sType:i pNext:P dstSet:Q dstBinding:I dstArrayElement:I descriptorCount:I descriptorType:i "
        "pImageInfo:P pBufferInfo:P pTexelBufferView:P",
    ),
}

GLOBAL: dict[str, str] = {
    "vkCreateInstance": "i P P P",
    "vkEnumerateInstanceVersion": "i P",
    "vkEnumerateInstanceLayerProperties": "i P P",
    "vkEnumerateInstanceExtensionProperties": "i P P P",
}

INSTANCE: dict[str, str] = {
    "vkDestroyInstance": "v P P",
    "vkEnumeratePhysicalDevices": "i P P P",
    "vkGetPhysicalDeviceProperties": "v P P",
    "vkGetPhysicalDeviceProperties2": "v P P",
    "vkGetPhysicalDeviceFeatures2": "v P P",
    "vkGetPhysicalDeviceMemoryProperties2": "v P P",
    "vkGetPhysicalDeviceQueueFamilyProperties2": "v P P P",
    "vkEnumerateDeviceExtensionProperties": "i P P P P",
    "vkCreateDevice": "i P P P P",
    "vkGetDeviceProcAddr": "P P P",
    "vkCreateDebugUtilsMessengerEXT": "i P P P P",
    "vkDestroyDebugUtilsMessengerEXT": "v P Q P",
    "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR": "i P P P",
}

DEVICE: dict[str, str] = {
    "vkDestroyDevice": "v P P",
    "vkGetDeviceQueue": "v P I I P",
    "vkDeviceWaitIdle": "i P",
    "vkAllocateMemory": "i P P P P",
    "vkFreeMemory": "v P Q P",
    "vkMapMemory": "i P Q Q Q I P",
    "vkCreateBuffer": "i P P P P",
    "vkDestroyBuffer": "v P Q P",
    "vkGetBufferMemoryRequirements": "v P Q P",
    "vkBindBufferMemory": "i P Q Q Q",
    "vkCreateCommandPool": "i P P P P",
    "vkDestroyCommandPool": "v P Q P",
    "vkAllocateCommandBuffers": "i P P P",
    "vkFreeCommandBuffers": "v P Q I P",
    "vkBeginCommandBuffer": "i P P",
    "vkEndCommandBuffer": "i P",
    "vkQueueSubmit": "i P I P Q",
    "vkCreateSemaphore": "i P P P P",
    "vkDestroySemaphore": "v P Q P",
    "vkGetSemaphoreCounterValue": "i P Q P",
    "vkWaitSemaphores": "i P P Q",
    "vkCreateQueryPool": "i P P P P",
    "vkDestroyQueryPool": "v P Q P",
    "vkGetQueryPoolResults": "i P Q I I Z P Q I",
    "vkCreateShaderModule": "i P P P P",
    "vkDestroyShaderModule": "v P Q P",
    "vkCreateDescriptorSetLayout": "i P P P P",
    "vkDestroyDescriptorSetLayout": "v P Q P",
    "vkCreatePipelineLayout": "i P P P P",
    "vkDestroyPipelineLayout": "v P Q P",
    "vkCreatePipelineCache": "i P P P P",
    "vkDestroyPipelineCache": "v P Q P",
    "vkGetPipelineCacheData": "i P Q P P",
    "vkCreateComputePipelines": "i P Q I P P P",
    "vkDestroyPipeline": "v P Q P",
    "vkCreateDescriptorPool": "i P P P P",
    "vkDestroyDescriptorPool": "v P Q P",
    "vkAllocateDescriptorSets": "i P P P",
    "vkUpdateDescriptorSets": "v P I P I P",
    "vkCmdBindPipeline": "v P i Q",
    "vkCmdBindDescriptorSets": "v P i Q I I P I P",
    "vkCmdPushDescriptorSetKHR": "v P i Q I I P",
    "vkCmdPushConstants": "v P Q I I I P",
    "vkCmdDispatch": "v P I I I",
    "vkCmdPipelineBarrier": "v P I I I I P I P I P",
    "vkCmdCopyBuffer": "v P Q Q I P",
    "vkCmdFillBuffer": "v P Q Q Q I",
    "vkCmdResetQueryPool": "v P Q I I",
    "vkCmdWriteTimestamp": "v P I Q I",
}
