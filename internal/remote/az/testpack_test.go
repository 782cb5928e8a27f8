package az

import _ "github.com/tensorfs/tensorfs/internal/testing/testpack" // makes the weights of testdata
